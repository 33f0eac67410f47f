// class: cpu
/(x+x+)+y/.exec('x'.repeat(60))
