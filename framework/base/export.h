#pragma once

/// Marks what the shared library exports; everything else is hidden.
#if defined(_WIN32)
#define LAMINA_API
#else
#define LAMINA_API __attribute__((visibility("default")))
#endif
