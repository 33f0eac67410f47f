// Counts what a text is made of.
interface Params {
  text: string;
}

export default function (params: Params) {
  const words = params.text.match(/[\p{L}\p{N}'’-]+/gu) ?? [];
  const sentences = params.text.match(/[^.!?]*[\p{L}\p{N}][^.!?]*[.!?]?/gu) ?? [];
  let longest = "";
  for (const word of words) if (word.length > longest.length) longest = word;
  return {
    characters: [...params.text].length,
    words: words.length,
    sentences: sentences.length,
    longestWord: longest,
    readingMinutes: Math.max(1, Math.round(words.length / 220)),
  };
}
