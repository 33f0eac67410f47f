// Counts what is in a text. Change it freely: everything the tool returns is its output.
export default function (params) {
  const text = params.text;
  const words = text.match(/\S+/g) ?? [];
  const bare = words.map((word) => word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, ""));
  return {
    characters: [...text].length,
    charactersWithoutSpaces: [...text.replace(/\s/g, "")].length,
    words: words.length,
    lines: text === "" ? 0 : text.split(/\r\n|\r|\n/).length,
    sentences: (text.match(/[^.!?]+[.!?]+(\s|$)/g) ?? []).length,
    longestWord: bare.reduce((a, b) => (b.length > a.length ? b : a), ""),
  };
}
