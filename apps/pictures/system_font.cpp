#include "pictures/system_font.h"

#include <dlfcn.h>

// fontconfig is looked for when the first letter asks for it, so that the same program runs without. What follows is
// the part of its interface that is needed, as fontconfig/fontconfig.h has it since version 2.12.
namespace lamina::app {
namespace {

struct Fontconfig {
  int (*init)();
  void* (*pattern_create)();
  void (*pattern_destroy)(void*);
  int (*pattern_add_charset)(void*, const char*, const void*);
  int (*pattern_add_bool)(void*, const char*, int);
  int (*pattern_get_string)(const void*, const char*, int, unsigned char**);
  int (*pattern_get_integer)(const void*, const char*, int, int*);
  void* (*charset_create)();
  void (*charset_destroy)(void*);
  int (*charset_add_char)(void*, unsigned);
  int (*config_substitute)(void*, void*, int);
  void (*default_substitute)(void*);
  void* (*font_match)(void*, void*, int*);

  bool load() {
    void* const library = ::dlopen("libfontconfig.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return false;
    bool found = true;
    const auto get = [&](auto& function, const char* name) {
      *reinterpret_cast<void**>(&function) = ::dlsym(library, name);
      found = found && function != nullptr;
    };
    get(init, "FcInit");
    get(pattern_create, "FcPatternCreate");
    get(pattern_destroy, "FcPatternDestroy");
    get(pattern_add_charset, "FcPatternAddCharSet");
    get(pattern_add_bool, "FcPatternAddBool");
    get(pattern_get_string, "FcPatternGetString");
    get(pattern_get_integer, "FcPatternGetInteger");
    get(charset_create, "FcCharSetCreate");
    get(charset_destroy, "FcCharSetDestroy");
    get(charset_add_char, "FcCharSetAddChar");
    get(config_substitute, "FcConfigSubstitute");
    get(default_substitute, "FcDefaultSubstitute");
    get(font_match, "FcFontMatch");
    return found && init() != 0;
  }

  /// The best match for a font with outlines that has the letter; null if there is none.
  void* match(char32_t letter) const {
    void* const letters = charset_create();
    void* const wanted = pattern_create();
    charset_add_char(letters, letter);
    pattern_add_charset(wanted, "charset", letters);
    pattern_add_bool(wanted, "scalable", 1);
    pattern_add_bool(wanted, "color", 0);  // emoji as pictures have no outlines
    config_substitute(nullptr, wanted, 0);
    default_substitute(wanted);
    int result = 0;
    void* const found = font_match(nullptr, wanted, &result);
    pattern_destroy(wanted);
    charset_destroy(letters);
    return found;
  }
};

}  // namespace

std::optional<FontFile> system_font(char32_t letter) {
  static Fontconfig fontconfig;
  static const bool usable = fontconfig.load();
  void* const found = usable ? fontconfig.match(letter) : nullptr;
  if (found == nullptr) return std::nullopt;
  FontFile font;
  unsigned char* path = nullptr;
  if (fontconfig.pattern_get_string(found, "file", 0, &path) == 0) font.path = reinterpret_cast<const char*>(path);
  fontconfig.pattern_get_integer(found, "index", 0, &font.index);
  fontconfig.pattern_destroy(found);
  font.index &= 0xffff;  // above it fontconfig notes the instance of a variable font
  if (!font.path.starts_with("/usr/")) return std::nullopt;
  return font;
}

}  // namespace lamina::app
