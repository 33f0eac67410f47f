;; class: cpu
(module
  (memory (export "memory") 1)
  (table 1 funcref)
  (func (export "execute") (loop $l (drop (memory.size)) (drop (table.size 0)) (br $l))))
