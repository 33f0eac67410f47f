// class: cpu
return { then() { for (;;) {} } }
