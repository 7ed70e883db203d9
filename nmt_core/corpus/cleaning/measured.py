"""Languages in which identification may decide, made by benchmarks/languages_calibrate.py. Do not edit."""

MEASURED = """
ace 3.0 Latin id ms
af 4.5 Latin
am 3.0 Ethiopic
an 5.5 Latin
ar 3.0 Arabic
as 3.0 Bengali
ast 5.5 Latin es
az 5.0 Latin !Cyrillic !Arabic
bcl 3.0 Latin
be 3.0 Cyrillic !Latin
bg 3.0 Cyrillic
bn 3.0 Bengali
bo 3.0 Tibetan
br 3.0 Latin
brx 3.0 Devanagari hi
bs 3.0 Latin !Cyrillic
ca 3.5 Latin
ceb 3.0 Latin
ckb 5.5 Arabic
cnr 3.0 Latin !Cyrillic
co 4.5 Latin it
crh 3.0 Latin tr !Cyrillic
cs 3.0 Latin
cy 3.5 Latin
da 5.0 Latin
de 3.0 Latin
doi 3.0 Devanagari hi
dv 3.0 Thaana
dz 3.0 Tibetan
el 3.0 Greek
en 3.0 Latin
eo 4.0 Latin
es 3.0 Latin
et 3.5 Latin
eu 3.0 Latin
fa 3.0 Arabic
fi 3.0 Latin
fil 5.5 Latin
fo 5.5 Latin
fr 3.0 Latin
frp 5.5 Latin fr
fur 5.5 Latin fr it
fuv 3.0 Latin
fy 5.0 Latin
ga 3.0 Latin
gd 3.0 Latin
gl 4.5 Latin
gsw 5.5 Latin
gu 3.0 Gujarati
gug 3.0 Latin
ha 3.0 Latin
he 3.0 Hebrew
hi 3.0 Devanagari
hne 3.0 Devanagari hi
hr 3.0 Latin
hsb 5.5 Latin cs pl sl
ht 3.0 Latin
hu 3.0 Latin
hy 3.0 Armenian
ia 5.5 Latin es it
id 3.5 Latin
ie 5.5 Latin es fr it
ig 4.5 Latin
ilo 5.0 Latin
is 4.0 Latin
it 3.0 Latin
ja 3.0 Han+Hiragana+Katakana
jv 4.5 Javanese+Latin
ka 3.0 Georgian
kab 3.0 Latin
kk 4.0 Cyrillic !Latin !Arabic
km 3.0 Khmer
kn 3.0 Kannada
ko 3.0 Hangul
kok 3.5 Devanagari mr !Latin
ks 3.0 Devanagari hi !Arabic
ku 5.0 Arabic+Latin ar !Cyrillic
ky 5.0 Cyrillic
la 4.5 Latin
lb 5.5 Latin
lg 3.0 Latin
li 5.5 Latin nl
lij 3.0 Latin
ln 3.0 Latin
lo 3.0 Lao
lt 3.0 Latin
lv 3.0 Latin
mai 3.0 Devanagari hi
mg 3.5 Latin
min 3.0 Latin id ms
mk 3.0 Cyrillic
ml 3.0 Malayalam
mn 3.0 Cyrillic !Mongolian
mni 5.5 Meetei_Mayek !Bengali
mr 3.5 Devanagari
ms 3.0 Latin !Arabic
mt 3.0 Latin
my 3.0 Myanmar
nap 5.5 Latin it
nb 3.5 Latin
nds 4.5 Latin de nl
ne 3.5 Devanagari
nl 4.0 Latin
nn 4.0 Latin
no 3.5 Latin
nso 3.0 Latin
oc 5.0 Latin
om 4.0 Latin
or 3.0 Oriya
pa 3.0 Gurmukhi !Arabic
pam 3.5 Latin fil tl
pl 3.0 Latin
pnb 3.0 Arabic ur
ps 3.0 Arabic
pt 4.0 Latin
qu 3.0 Latin
rm 5.5 Latin it
ro 3.0 Latin
ru 3.0 Cyrillic
rue 3.0 Cyrillic ru uk
rw 4.5 Latin
sa 3.0 Devanagari
sah 3.0 Cyrillic
sat 5.0 Ol_Chiki !Devanagari !Bengali
sc 5.5 Latin ca it pt
sco 3.0 Latin af en
sd 3.0 Arabic+Devanagari ar hi
se 3.0 Latin
si 3.0 Sinhala
sk 3.5 Latin
sl 4.5 Latin
sn 3.0 Latin
so 4.5 Latin
sq 4.0 Latin
sr 3.5 Cyrillic+Latin
st 3.0 Latin
su 5.5 Latin id ms
sv 3.5 Latin
sw 3.0 Latin
ta 3.0 Tamil
te 3.0 Telugu
tg 4.0 Cyrillic !Arabic
th 3.0 Thai
tk 5.0 Latin !Cyrillic
tl 3.0 Latin
tr 3.0 Latin
tt 5.0 Latin tr !Cyrillic
tyv 3.0 Cyrillic ky
ug 3.0 Arabic !Cyrillic !Latin
uk 3.0 Cyrillic
ur 3.0 Arabic
uz 4.0 Cyrillic+Latin
vec 3.5 Latin
vep 3.0 Latin et fi
vi 3.0 Latin
wa 4.5 Latin
war 3.0 Latin fil tl
wuu 5.0 Han+Hiragana+Katakana !Bopomofo
xh 5.5 Latin
yi 3.0 Hebrew he
yo 3.0 Latin
yue 3.0 Han+Hiragana+Katakana zh !Bopomofo
zh 3.0 Han+Hiragana+Katakana !Bopomofo
zu 3.0 Latin
"""
"""One language a line: ISO 639 code, margin, scripts, languages that are accepted in its place, !scripts.

The last are scripts in which the language is written too, but too much of its sound text is lost.

The margin is the logarithm of how much more probable another language must be. Languages that are not
listed were not measured, or too much of their sound text is taken for other languages.
"""
