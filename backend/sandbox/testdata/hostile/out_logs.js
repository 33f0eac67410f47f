// class: ok cpu
// long: yes
for (let i = 0; i < 1e6; i++) console.log(i);
return 1
