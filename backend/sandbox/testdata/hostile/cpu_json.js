// class: cpu memory
const s = JSON.stringify(Array.from({ length: 2e5 }, (_, i) => ({ i })));
for (;;) JSON.parse(s)
