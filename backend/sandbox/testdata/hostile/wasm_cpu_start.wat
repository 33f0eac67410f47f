;; class: cpu
(module
  (memory (export "memory") 1)
  (func $s (loop $l (br $l))) (start $s)
  (func (export "execute") ))
