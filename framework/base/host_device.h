#pragma once

/// In front of what both a CPU's and a GPU's compiler read.
#ifdef __CUDACC__
#define LAMINA_HOST_DEVICE __host__ __device__
#else
#define LAMINA_HOST_DEVICE
#endif
