# cmake -DFOLDER=page -DOUTPUT=page.cpp -P bake_page.cmake: the page's files as text in a source.
set(files "")
foreach(entry IN ITEMS "/|index.html|text/html; charset=utf-8" "/style.css|style.css|text/css"
                       "/app.js|app.js|text/javascript" "/draw.js|draw.js|text/javascript" "/icon.svg|icon.svg|image/svg+xml")
  string(REPLACE "|" ";" parts "${entry}")
  list(GET parts 0 path)
  list(GET parts 1 name)
  string(REGEX REPLACE "^[^|]*\\|[^|]*\\|" "" type "${entry}")
  file(READ "${FOLDER}/${name}" content)
  string(APPEND files "    {\"${path}\", \"${name}\", \"${type}\", R\"page(${content})page\"},\n")
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
