let text = "";
for (let i = 0; i < 4000; i++) text += "user" + i + "@mail" + (i % 17) + ".example.com, 2026-0" + (1 + (i % 9)) + "-1" + (i % 10) + " $" + i + ".50; ";
let n = 0;
for (let k = 0; k < 3; k++) {
  for (const m of text.matchAll(/(\w+)@(\w+)\.example\.com/g)) n += m[1].length;
  n += text.replace(/(\d{4})-(\d{2})-(\d{2})/g, "$3.$2.$1").length;
  n += text.split(/[;,]\s*/).length;
}
return n;
