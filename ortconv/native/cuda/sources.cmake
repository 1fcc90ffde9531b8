# The CUDA side: planning, and the device sources as text, which NVRTC compiles for the device found. No toolkit needed.
set(cuda_dir ${CMAKE_CURRENT_LIST_DIR})
file(GLOB ORTCONV_CUDA_DEVICE_SOURCES CONFIGURE_DEPENDS ${cuda_dir}/*.cu)
list(APPEND ORTCONV_CUDA_DEVICE_SOURCES
  ${cuda_dir}/params.h
  ${cuda_dir}/compressed_params.h
  ${cuda_dir}/codes.h
  ${cuda_dir}/packed.h
  ${cuda_dir}/intrinsics.h
  ${cuda_dir}/device.h
  ${cuda_dir}/values.h
  ${cuda_dir}/words.h
  ${cuda_dir}/direct.h
  ${cuda_dir}/divide.h
  ${cuda_dir}/tile.h
  ${cuda_dir}/split.h)
set(embedded ${CMAKE_CURRENT_BINARY_DIR}/cuda_embedded.cc)
add_custom_command(
  OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} "-DSOURCES=${ORTCONV_CUDA_DEVICE_SOURCES}" -DOUTPUT=${embedded} -P ${cuda_dir}/embed.cmake
  DEPENDS ${ORTCONV_CUDA_DEVICE_SOURCES} ${cuda_dir}/embed.cmake
  COMMENT "Embedding the device sources"
  VERBATIM)
set(ORTCONV_CUDA_SOURCES
  ${cuda_dir}/plan.cc
  ${cuda_dir}/compressed_plan.cc
  ${cuda_dir}/products.cc
  ${cuda_dir}/describe.cc
  ${cuda_dir}/depthwise_plan.cc
  ${cuda_dir}/gemm_plan.cc
  ${cuda_dir}/tiling.cc
  ${cuda_dir}/source.cc
  ${embedded})
