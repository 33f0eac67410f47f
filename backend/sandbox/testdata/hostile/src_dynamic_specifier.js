// class: thrown cpu compile
return await import({ toString() { return '../../../../etc/passwd' } })
