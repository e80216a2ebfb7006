; What a TypeScript file defines, with JSX or without; variables at the top only.
(function_declaration name: (identifier) @name body: (statement_block) @body) @def.fn
(generator_function_declaration name: (identifier) @name body: (statement_block) @body) @def.fn
(function_signature name: (identifier) @name) @def.fn
(class_declaration name: (type_identifier) @name body: (class_body) @body) @def.class
(abstract_class_declaration name: (type_identifier) @name body: (class_body) @body) @def.class
(method_definition name: (_) @name body: (statement_block) @body) @def.fn
(method_signature name: (_) @name) @def.fn
(abstract_method_signature name: (_) @name) @def.fn
(interface_declaration name: (type_identifier) @name body: (_) @body) @def.interface
(type_alias_declaration name: (type_identifier) @name) @def.type
(enum_declaration name: (identifier) @name body: (_) @body) @def.enum
(internal_module name: (_) @name body: (_) @body) @def.mod
(program (lexical_declaration
  (variable_declarator name: (identifier) @name value: (arrow_function body: (statement_block) @body))) @def.fn)
(program (export_statement (lexical_declaration
  (variable_declarator name: (identifier) @name value: (arrow_function body: (statement_block) @body))) @def.fn))
(program (lexical_declaration kind: "let" (variable_declarator name: (identifier) @name)) @def.var)
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @def.const)
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name)) @def.const))
(program (variable_declaration (variable_declarator name: (identifier) @name)) @def.var)
