// class: cpu
return {} instanceof { [Symbol.hasInstance]() { for (;;) {} } }
