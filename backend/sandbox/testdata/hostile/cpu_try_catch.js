// class: cpu
while (1) { try { while (1) {} } catch (e) {} }
