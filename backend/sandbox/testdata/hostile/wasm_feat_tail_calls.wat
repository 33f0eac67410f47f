;; class: compile
;; flags: --enable-all
(module
  (memory (export "memory") 1)
  (func $f (return_call $f))
  (func (export "execute") (return_call $f)))
