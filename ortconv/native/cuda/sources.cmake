# The CUDA side: planning, and the device sources as text, which NVRTC compiles for the device found. No toolkit needed.
set(cuda_dir ${CMAKE_CURRENT_LIST_DIR})
file(GLOB ORTCONV_CUDA_DEVICE_SOURCES CONFIGURE_DEPENDS
  ${cuda_dir}/device/*.cu ${cuda_dir}/device/*.h ${cuda_dir}/params/*.h)
set(embedded ${CMAKE_CURRENT_BINARY_DIR}/cuda_embedded.cc)
add_custom_command(
  OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} "-DSOURCES=${ORTCONV_CUDA_DEVICE_SOURCES}" -DFOLDER=${cuda_dir} -DOUTPUT=${embedded}
    -P ${cuda_dir}/device/embed.cmake
  DEPENDS ${ORTCONV_CUDA_DEVICE_SOURCES} ${cuda_dir}/device/embed.cmake
  COMMENT "Embedding the device sources"
  VERBATIM)
set(ORTCONV_CUDA_PLAN_SOURCES
  cuda/plan/compressed_plan.cc
  cuda/plan/depthwise_plan.cc
  cuda/plan/describe.cc
  cuda/plan/fourier_plan.cc
  cuda/plan/fourier_tables.cc
  cuda/plan/gemm_plan.cc
  cuda/plan/plan.cc
  cuda/plan/products.cc
  cuda/plan/source.cc
  cuda/plan/tiling.cc
  ${embedded})
set(ORTCONV_CUDA_HOST_SOURCES
  cuda/host/disk_cache.cc
  cuda/host/driver.cc
  cuda/host/gpu.cc
  cuda/host/nvrtc.cc
  cuda/host/prepared.cc
  cuda/host/private_folder.cc
  cuda/host/shared_library.cc)
