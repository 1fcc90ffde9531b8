// pocketfft without threads, a cache of plans, and warnings. Its inline functions are compiled for the instruction set
// of the file that includes them, which first defines `pocketfft` as a name of its own.
#pragma once

#if !defined(pocketfft)
#error "define pocketfft"
#endif
#define POCKETFFT_NO_MULTITHREADING
#define POCKETFFT_CACHE_SIZE 0
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#include "third_party/pocketfft/pocketfft_hdronly.h"
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
