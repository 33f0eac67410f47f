// class: cpu memory
return Iterator.from({ next() { return { done: false, value: 1 } } }).map((x) => x).filter(() => false).toArray()
