// class: cpu memory thrown
Array.from({ length: 2 ** 53 - 1 })
