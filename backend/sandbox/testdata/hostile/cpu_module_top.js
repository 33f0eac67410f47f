// class: cpu
for (;;) {}
export default function () { return 1 }
