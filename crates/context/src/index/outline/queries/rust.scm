; What a Rust file defines. Of two patterns that fit one node the first counts.
(function_item name: (identifier) @name body: (block) @body) @def.fn
(function_signature_item name: (identifier) @name) @def.fn
(struct_item name: (type_identifier) @name body: (field_declaration_list) @body) @def.struct
(struct_item name: (type_identifier) @name) @def.struct
(union_item name: (type_identifier) @name body: (_) @body) @def.struct
(enum_item name: (type_identifier) @name body: (_) @body) @def.enum
(trait_item name: (type_identifier) @name body: (_) @body) @def.trait
(impl_item type: (_) @name body: (_) @body) @def.impl
(mod_item name: (identifier) @name body: (_) @body) @def.mod
(mod_item name: (identifier) @name) @def.mod
(type_item name: (type_identifier) @name) @def.type
(associated_type name: (type_identifier) @name) @def.type
(const_item name: (identifier) @name) @def.const
(static_item name: (identifier) @name) @def.const
(macro_definition name: (identifier) @name) @def.macro
