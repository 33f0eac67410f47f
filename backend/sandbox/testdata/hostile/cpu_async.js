// class: cpu
for (;;) await 0
