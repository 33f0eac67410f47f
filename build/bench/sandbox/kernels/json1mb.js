const rows = Array.from({ length: 11000 }, (_, i) => ({ id: i, name: "item " + i, tags: ["red", "blue \u00e9"], price: i * 1.25, on: i % 3 === 0, none: null }));
let text = JSON.stringify(rows);
for (let i = 0; i < 3; i++) text = JSON.stringify(JSON.parse(text));
return text.length;
