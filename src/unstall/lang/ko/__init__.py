"""The Korean catalogue: one module for each part of the product that speaks.

In: English templates as the code writes them. Out: what is said instead. Sentences are in 합니다체, labels are noun
phrases. No particle that hangs on the sound before it follows a field, unless the field is a figure with its unit.
"""
