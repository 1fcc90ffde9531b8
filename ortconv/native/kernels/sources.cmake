# Sources of the kernel families. Files named after an ISA get that ISA's compiler flags and nothing else does.
set(ORTCONV_KERNEL_SOURCES
  kernels/gemm/gemm.cc
  kernels/gemm/gemm_generic.cc
  kernels/interleave/interleave.cc
  kernels/interleave/interleave_generic.cc
  kernels/conv_transpose/plan.cc
  kernels/conv_transpose/geometry.cc
  kernels/conv_transpose/gather.cc
  kernels/conv_transpose/scatter.cc
  kernels/conv_transpose/driver.cc)
set(ORTCONV_KERNEL_SOURCES_AVX2
  kernels/gemm/gemm_avx2.cc
  kernels/interleave/interleave_avx2.cc)
set(ORTCONV_KERNEL_SOURCES_AVX512
  kernels/gemm/gemm_avx512.cc
  kernels/interleave/interleave_avx512.cc)
