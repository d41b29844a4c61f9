#pragma once

/// Stands in front of functions that a GPU's kernels call too. Their sources set it, before they include anything, to
/// what their compiler wants there.
#ifndef LAMINA_HOST_DEVICE
#define LAMINA_HOST_DEVICE
#endif
