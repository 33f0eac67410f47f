// class: cpu
for (;;) crypto.randomUUID()
