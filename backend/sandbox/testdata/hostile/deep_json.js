// class: thrown ok
const s = '['.repeat(1e6) + ']'.repeat(1e6);
JSON.parse(s)
