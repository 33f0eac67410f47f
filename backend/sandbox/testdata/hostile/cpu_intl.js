// class: cpu
for (;;) new Intl.NumberFormat('en-US', { maximumFractionDigits: 100, minimumFractionDigits: 100 }).format(1e308)
