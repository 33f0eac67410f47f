;; class: compile
;; flags: --enable-all
(module
  (memory (export "memory") 1)
  (func (export "execute") (loop $l (br_if $l (i32.eqz (i32.atomic.load (i32.const 0)))))))
