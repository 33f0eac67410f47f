// class: memory cpu
for (;;) Promise.resolve().then(() => 1)
