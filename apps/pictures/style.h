#pragma once

#include "pictures/canvas.h"

/// What the pictures of feature maps have in common.
namespace lamina::app::style {

inline constexpr Color background{24, 24, 28};
inline constexpr Color ink{232, 232, 236};
inline constexpr Color faint{150, 150, 160};
inline constexpr Color accent{94, 220, 228};  // of what is marked: no colour of inferno is near it

inline constexpr int title_size = 20, text_size = 13, caption_size = 10, number_size = 8;  // heights of capitals
inline constexpr int margin = 28, between = 36;  // around a picture, and of its two columns
inline constexpr int frame = 2;                  // around what is marked

}  // namespace lamina::app::style
