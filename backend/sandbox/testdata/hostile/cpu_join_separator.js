// class: cpu memory thrown
for (;;) new Array(2 ** 25).join('ab')
