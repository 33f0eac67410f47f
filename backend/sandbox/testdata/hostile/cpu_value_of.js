// class: cpu
return +{ valueOf() { for (;;) {} } }
