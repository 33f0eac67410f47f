// class: cpu
return Iterator.from([1]).flatMap(function* () { for (;;) yield* [] }).next()
