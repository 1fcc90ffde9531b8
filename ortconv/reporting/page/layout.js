// Runs in a worker: places the nodes of a network in layers and routes its edges around them.
"use strict";
onmessage = ({ data: { count, edges, size, gap } }) => {
  const graph = d3.graph();
  const nodes = Array.from({ length: count }, (_, number) => graph.node(number));
  edges.forEach(([from, to], number) => graph.link(nodes[from], nodes[to], number));
  const layout = d3.sugiyama().nodeSize(size).gap(gap)
    .layering(d3.layeringSimplex())
    .decross(d3.decrossTwoLayer().passes(6))
    .coord(d3.coordGreedy());
  const { width } = count ? layout(graph) : { width: 0 };
  postMessage({
    width,
    positions: nodes.map(({ x, y }) => ({ x, y })),
    routes: Object.fromEntries(Array.from(graph.links(), ({ data, points }) => [data, points])),
  });
};
