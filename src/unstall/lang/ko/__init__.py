"""The Korean catalogue: one module for each part of the product that speaks, each with its ``TEXTS``.

In: English templates as the code writes them. Out: what is said instead. Sentences end as the English ones do, in 합니다체;
labels are noun phrases. No particle that hangs on the sound before it follows a field, unless that is a figure with its
unit. Terms: ``docs/glossary.ko.md``.
"""
