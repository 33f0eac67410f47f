// class: cpu
structuredClone({ get x() { for (;;) {} } })
