# cmake -DFOLDER=page -DOUTPUT=page.cpp -P bake_page.cmake: the page's files as strings in a source.
set(files "")
foreach(entry IN ITEMS "/|index.html|text/html; charset=utf-8" "/style.css|style.css|text/css"
                       "/app.js|app.js|text/javascript" "/draw.js|draw.js|text/javascript"
                       "/window.js|window.js|text/javascript" "/keep.js|keep.js|text/javascript"
                       "/found.js|found.js|text/javascript" "/photos.js|photos.js|text/javascript"
                       "/icon.svg|icon.svg|image/svg+xml" "/cat.jpg|cat.jpg|image/jpeg"
                       "/coffee.jpg|coffee.jpg|image/jpeg" "/rocket.jpg|rocket.jpg|image/jpeg"
                       "/seven.png|seven.png|image/png")
  string(REPLACE "|" ";" parts "${entry}")
  list(GET parts 0 path)
  list(GET parts 1 name)
  string(REGEX REPLACE "^[^|]*\\|[^|]*\\|" "" type "${entry}")
  file(READ "${FOLDER}/${name}" content HEX)
  file(SIZE "${FOLDER}/${name}" size)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" content "${content}")
  string(APPEND files "    {\"${path}\", \"${name}\", \"${type}\", {\"${content}\", ${size}}},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"serve/page.h\"

namespace lamina::app {
namespace {

constexpr PageFile files[] = {
${files}};

}  // namespace

const std::span<const PageFile> page_files = files;

}  // namespace lamina::app
")
