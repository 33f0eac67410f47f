// class: cpu
[{ toString() { for (;;) {} } }, 1].sort()
