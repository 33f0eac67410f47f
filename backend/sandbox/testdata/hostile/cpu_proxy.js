// class: cpu
return new Proxy({}, { ownKeys() { for (;;) {} } })
