// class: cpu
throw { get name() { for (;;) {} } }
