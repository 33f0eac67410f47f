// class: cpu memory
for (;;) [...'a'.repeat(1e5).matchAll(/(?=(a*))/g)].length
