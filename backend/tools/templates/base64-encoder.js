// Encodes text as Base64 or decodes it, in the standard or the URL alphabet.
export default function (params) {
  if (params.mode === "decode") {
    let text = params.text.replace(/-/g, "+").replace(/_/g, "/").replace(/\s/g, "");
    text += "=".repeat((4 - (text.length % 4)) % 4);
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return { result: new TextDecoder().decode(bytes) };
  }
  const bytes = new TextEncoder().encode(params.text);
  let binary = "";
  for (const b of bytes) binary += String.fromCharCode(b);
  let result = btoa(binary);
  if (params.urlSafe) result = result.replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  return { result };
}
