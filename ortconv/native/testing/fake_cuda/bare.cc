// A driver of long ago: under the name of the real one, but with one function only.
extern "C" __attribute__((visibility("default"))) int cuInit(unsigned) { return 0; }
