// class: cpu
for (;;) {}
