// class: cpu
for (;;) { try { for (;;) {} } finally { continue } }
