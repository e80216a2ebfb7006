; What a Python file defines; a docstring stands in the body.
(function_definition name: (identifier) @name body: (block . (expression_statement (string) @doc)) @body) @def.fn
(function_definition name: (identifier) @name body: (block) @body) @def.fn
(class_definition name: (identifier) @name body: (block . (expression_statement (string) @doc)) @body) @def.class
(class_definition name: (identifier) @name body: (block) @body) @def.class
(module (expression_statement (assignment left: (identifier) @name)) @def.const)
