// class: cpu memory thrown
let s = 'a'; for (;;) s = s.replaceAll('a', 'aa')
