// class: cpu
return { toJSON() { for (;;) {} } }
