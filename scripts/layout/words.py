"""Names of C++ in the library's messages: every other interface has a word for each, in a table of its own.

Errors are written once, in C++'s words; `detail::in_words` puts another interface's in their place (framework/base/names.h).
"""

import re

TABLES = ("framework/c/status.cpp", "python/bindings/options.cpp", "apps/complain.h")
TEXT = re.compile(r'(?:"(?:\\.|[^"\\\n])*"\s*)+')  # also in parts, on several lines
ROW = re.compile(r'\{\s*"((?:\\.|[^"\\])*)",\s*"((?:\\.|[^"\\])*)"\s*\}')
NAME = re.compile(r"\b(?:[A-Z]\w*|lamina)::\w+")


def unsaid(sources):
    """Where a message has a name that a table has no word for; `sources` are the texts of files by their names."""
    tables = {name: ROW.findall(sources[name]) for name in TABLES if name in sources}
    for name, text in sources.items():
        if not name.startswith("framework/") or name.startswith(("framework/c/", "framework/cuda/")):
            continue
        if not name.endswith((".h", ".cpp")):
            continue
        code = re.sub(r"(?m)^[ \t]*//.*", "", text)
        for match in TEXT.finditer(code):
            message = re.sub(r'"\s*"', "", match[0])
            for table, rows in tables.items() if NAME.search(message) else ():
                said = message
                for row in rows:
                    said = said.replace(*row)
                for left in NAME.findall(said):
                    yield f"{name}:{code.count(chr(10), 0, match.start()) + 1}: a message says {left}, for which {table} has no word"
