// class: cpu
new Intl.NumberFormat('en-US', { get style() { for (;;) {} } }).format(1)
