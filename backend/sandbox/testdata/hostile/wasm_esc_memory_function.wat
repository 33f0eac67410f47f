;; class: compile missing_export
(module
  (memory 1) (func (export "memory"))
  (func (export "execute") ))
